"""Sources on other machines: what lies at an address is listed, looked at, and read from any place in it."""
