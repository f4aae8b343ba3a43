"""Online clustering and sparse feature discovery with a Hebbian/anti-Hebbian network."""
