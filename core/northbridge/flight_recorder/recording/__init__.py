"""What a rank notes of its collectives, inside the rank."""
