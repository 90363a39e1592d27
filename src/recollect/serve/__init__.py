"""Trained runs behind HTTP: completions as existing clients ask for them, sessions that fork and rewind, every task.

`application` (app.py) is the ASGI application with its guards; whoever has further pages gives it their routes.
Requests that write text at the same time share one batch (batches.py). Nothing here is imported before `recollect
serve` runs.
"""
