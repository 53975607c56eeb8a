"""From films to the blocks of stores: decode once, compute with each backbone, write."""
