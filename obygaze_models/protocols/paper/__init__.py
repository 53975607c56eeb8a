"""The rules of the paper of ObyGaze12 (CVPR 2024), as its code and as its text have them."""
