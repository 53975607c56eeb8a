"""Reading frames of videos, beside other libraries."""
