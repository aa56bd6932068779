"""What our accounts were granted, held against what they asked for: the audit replay of rights."""
