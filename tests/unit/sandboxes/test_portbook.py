from __future__ import annotations

import socket

import pytest
from day0.runs.errors import Infrastructure
from day0.sandboxes import portbook
from day0.sandboxes.portbook import FIRST, FORGET_S, SPAN, PortBook, nobody_listens


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_s20_a_port_comes_back_only_after_an_hour(tmp_path, monkeypatch):
    monkeypatch.setattr(portbook, "SPAN", 3)
    time = Time()
    book = PortBook(tmp_path / "ports", begin=FIRST, is_free=lambda port: True, now=time)
    assert [book.take() for _ in range(3)] == [FIRST, FIRST + 1, FIRST + 2]
    time.now += FORGET_S - 1
    with pytest.raises(Infrastructure):
        book.take()
    time.now += 2
    assert book.take() == FIRST


def test_s25_ports_in_use_are_passed_over(tmp_path):
    book = PortBook(tmp_path / "ports", begin=FIRST, is_free=lambda port: port % 10 == 7)
    assert [book.take() for _ in range(2)] == [FIRST + 7, FIRST + 17]


def test_a_clock_set_back_blocks_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(portbook, "SPAN", 1)
    time = Time()
    book = PortBook(tmp_path / "ports", begin=FIRST, is_free=lambda port: True, now=time)
    book.take()
    time.now = 0
    assert book.take() == FIRST


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"given": 3, "last": 1}', "\0\0"])
def test_a_damaged_book_begins_anew(tmp_path, text):
    (tmp_path / "ports").write_text(text)
    book = PortBook(tmp_path / "ports", is_free=lambda port: True)
    assert FIRST <= book.take() < FIRST + SPAN


def test_two_books_begin_at_different_places(tmp_path):
    books = [PortBook(tmp_path / name, is_free=lambda port: True) for name in "abcdef"]
    assert len({book.take() for book in books}) == 6


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_listener_on_any_address_is_seen(address):
    with socket.socket() as sock:
        sock.bind((address, 0))
        sock.listen()
        assert not nobody_listens(sock.getsockname()[1])
