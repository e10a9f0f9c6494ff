"""What replays with hints keep beside a memory, to find valid cells at once."""
