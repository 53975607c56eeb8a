"""Reading the sound of a film at the right time, beside other libraries."""
