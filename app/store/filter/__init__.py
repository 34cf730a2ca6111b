"""STORE: the filter language over evaluations as SQL, and filters that people saved."""
