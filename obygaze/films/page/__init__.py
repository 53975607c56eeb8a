"""The film page: films, clips and scores to look at, and marks, in the browser.

`site` makes the documents that the page shows, `media` its pictures and videos, and `routes` gives
them to the server. The scripts of the page are in `static`: `main.js` says how they work together.
"""
