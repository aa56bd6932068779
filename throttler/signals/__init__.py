"""What the metrics of API servers mean: bytes to counters to windows. Pure; `throttler.scraping` fetches them."""
