"""The scale-up with real kubelets, fewer of them: the truth that the joiners of `scaleup` are held against."""
