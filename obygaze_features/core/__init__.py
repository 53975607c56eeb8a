"""What every room stands on: errors, the console, files, the workspace. Imports nothing of ours."""
