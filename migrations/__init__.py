"""Migrations: the history of the tables in `app/store/tables`, run by `assay db upgrade`."""
