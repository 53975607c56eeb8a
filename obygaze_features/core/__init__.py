"""What all rooms use: errors, the console, files, the workspace. It imports no other room."""
