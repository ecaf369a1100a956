"""What a law gives away: exact privacy accounting."""
