"""Code that all other packages use: errors, console, files, workspace. It imports none of them."""
