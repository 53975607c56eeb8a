"""Video and image models as data: one card a checkpoint, one small adapter a family."""
