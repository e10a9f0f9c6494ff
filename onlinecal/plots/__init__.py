"""The pictures: each is prepared as a table and drawn from that table."""
