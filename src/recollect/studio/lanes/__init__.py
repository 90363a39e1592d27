"""Lanes: trained language models that read one text side by side, with all that can be seen of their states.

`pictures` finds what there is to see of a model, `lane` is a model ready to read, `track` one model on one text with
its history, `pages` keeps the tracks of open pages within their limits. Nothing here knows HTTP but for refusals.
"""
