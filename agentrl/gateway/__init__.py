"""Gateway: programs call the policy over HTTP; needs the extra `host`."""
