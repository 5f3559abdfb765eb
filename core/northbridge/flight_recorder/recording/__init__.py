"""Recording of a rank's collectives, inside the rank."""
