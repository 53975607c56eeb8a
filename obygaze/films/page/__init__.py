"""The page of a film: its video, clips, marks and scores, in one file that needs no server.

`site` makes the document that the page shows, `media` reads what it must know of videos, and `view`
writes the file. The scripts of the page are in `static`. The comments in `main.js` explain how they
work together.
"""
