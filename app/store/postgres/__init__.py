"""STORE: the database itself: connections, migrations, and forms of statements that all use."""
