"""What the program gives, written down in tables, and compared with what it gives today."""
