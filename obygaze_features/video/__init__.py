"""What a video file holds, and the frames a model would see of it."""
