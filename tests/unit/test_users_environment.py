"""What a user has exported for clusters of theirs reaches no test."""

from tests.conftest import forget_what_a_user_exported


def test_no_helm_kubectl_or_command_of_a_test_is_led_to_a_users_cluster() -> None:
    theirs = {"HELM_KUBEAPISERVER": "https://prod", "HELM_NAMESPACE": "ml", "KUBECONFIG": "/prod", "BALLOONS_FROM": "x"}
    environment = {**theirs, "COLUMNS": "40", "KUBEBUILDER_ASSETS": "/assets", "NO_PROXY": ".example.com"}
    forget_what_a_user_exported(environment)
    assert environment == {
        "KUBEBUILDER_ASSETS": "/assets",
        "NO_PROXY": ".example.com",
        "no_proxy": ".example.com,127.0.0.1,localhost",
    }
