"""The studio: pages over trained runs, their memories at work and what was measured of them, in one local server.

`app.Studio` puts the pages of `views.VIEWS` before the API of `recollect serve`, behind the same guard. A view is one
Python module with `routes(studio)` and one script `static/views/NAME.js`. Nothing here is imported before `recollect
studio` runs.
"""
