"""The engine over HTTP (extra `serve`): routes, who may pass, a page of live certificates, a server."""
