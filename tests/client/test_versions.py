"""A client says its version with every request."""

import socket
import threading

import likewise as lw


def test_client_says_its_version():
    listener = socket.create_server(("127.0.0.1", 0))
    heads = []

    def answer_once():
        connection = listener.accept()[0]
        with connection:
            heads.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    thread = threading.Thread(target=answer_once, daemon=True)
    thread.start()
    try:
        client = lw.connect(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=10)
        client.observe([1.0], "a")
    except lw.LikewiseError:
        pass
    finally:
        thread.join(30)
        listener.close()
    assert f"user-agent: likewise/{lw.__version__}".encode() in heads[0].lower()
