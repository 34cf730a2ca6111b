"""Parts of the backends: import hook, dispatch mode, library accounting, libdevice,
compiled twins.
"""
