"""Ways in which an object comes back from a pickle: they differ in where its arrays lie."""

import pickle


def pickled(thing):
    """Back from bytes."""
    return pickle.loads(pickle.dumps(thing))


def read_only(thing):
    """With arrays at odd addresses that cannot be written to, as from a network or shared memory."""
    buffers = []
    data = pickle.dumps(thing, 5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[memoryview(b"x" + buffer.raw())[1:] for buffer in buffers])


def shared(thing):
    """With buffers that are the arrays of the original."""
    buffers = []
    return pickle.loads(pickle.dumps(thing, 5, buffer_callback=buffers.append), buffers=buffers)
