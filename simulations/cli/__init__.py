"""The simulations' verbs, one a file; what they do is imported when they are run, so that help is instant."""
