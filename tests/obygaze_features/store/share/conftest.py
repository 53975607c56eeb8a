"""What all tests of publications share."""

from support.disk import no_waiting_for_the_disk

__all__ = ["no_waiting_for_the_disk"]
