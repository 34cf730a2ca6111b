"""The Celery worker process of one device: holds credentials, imports no torch,
claims jobs and stores results.
"""
