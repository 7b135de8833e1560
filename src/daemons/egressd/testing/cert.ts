// For tests: a certificate of good.test, *.good.test, other.test and localhost that signs itself.
// It protects nothing: whoever reads this has its key.

export const CERT = `-----BEGIN CERTIFICATE-----
MIIBvjCCAWWgAwIBAgIUeGwbh7z7nTxnqHXxvlJ6p55bbbUwCgYIKoZIzj0EAwIw
FjEUMBIGA1UEAwwLYWdlbnRkIHRlc3QwIBcNMjYxMTE1MTA0OTM4WhgPMjEyNjEw
MjIxMDQ5MzhaMBYxFDASBgNVBAMMC2FnZW50ZCB0ZXN0MFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEn7MPBQHqXPGgomT5KAThWDocIB5mgmwcAfXKptnnsJk6eZCA
p1KqNmmGkSGywDLOWgZTQslXvsY5+22jmgFctqOBjjCBizAdBgNVHQ4EFgQUZvRH
xjrqb1Fpi6PGGmkCPbr5icQwHwYDVR0jBBgwFoAUZvRHxjrqb1Fpi6PGGmkCPbr5
icQwOAYDVR0RBDEwL4IJZ29vZC50ZXN0ggsqLmdvb2QudGVzdIIKb3RoZXIudGVz
dIIJbG9jYWxob3N0MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIg
Vel39HwTd+jI9AInIISsHjwiZ1i2P8+YPoW9765dcbcCIAPlypSKoMvCUMz01pVo
ieJjJfQEwS6C/OBHiNNxf5wl
-----END CERTIFICATE-----
`;

export const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgSmKYUIdAgNVflFit
Y0O9UL7nnlmJn5QdIY3AU5MvxxGhRANCAASfsw8FAepc8aCiZPkoBOFYOhwgHmaC
bBwB9cqm2eewmTp5kICnUqo2aYaRIbLAMs5aBlNCyVe+xjn7baOaAVy2
-----END PRIVATE KEY-----
`;
