"""The observed and paced Kubernetes client: every attempt is counted, every call passes one gate.

Pure: `backoff`, `errors`, `kubeconfig`, `pages`, `requests`, `resource`, `retry_after`, `store`,
`watch_frames`. I/O: `connection` (configuration, authentication, TLS), `credentials`, `gate`, `kube_client`,
`reflector`, `retries`, `transport`. Only `connection` imports the official client, and only when called.
"""
