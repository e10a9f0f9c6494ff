"""The engine over HTTP (extra `serve`): routes, who may pass, a page of live certificates, a server.

Nothing is imported or kept here. Requests are served in one event loop, but for large bodies, which `app.py`
reads in threads; and they reach the engine by an `AsyncEngine` alone.
"""
