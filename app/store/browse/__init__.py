"""STORE: queries of the web UI's pages, one module per page; nothing here writes.

Lists page by key, never by OFFSET: ids sort by age (app.domain.ids), so `older than
this id` is an index scan.
"""
