// The way out as a box sees it: one address, and the settings that make programs use it. The
// listener is the warden's, what may pass is egressd's.

/** In every box with a way out, in its own network namespace. */
export const PROXY_URL = 'http://127.0.0.1:3128';
/** What runs inside the box itself is reached directly; there is no other network in there. */
const DIRECT = 'localhost,127.0.0.1,::1';

/**
 * Environment of every process in a box with a way out. Both spellings: curl reads only the lower
 * case of http_proxy, others only the upper. Git takes its setting from here before any file, so
 * that a repository cannot name another proxy.
 */
export function proxyEnvironment(proxyUrl: string = PROXY_URL): Record<string, string> {
  return {
    HTTP_PROXY: proxyUrl,
    http_proxy: proxyUrl,
    HTTPS_PROXY: proxyUrl,
    https_proxy: proxyUrl,
    ALL_PROXY: proxyUrl,
    all_proxy: proxyUrl,
    NO_PROXY: DIRECT,
    no_proxy: DIRECT,
    npm_config_proxy: proxyUrl,
    npm_config_https_proxy: proxyUrl,
    npm_config_noproxy: DIRECT,
    NODE_USE_ENV_PROXY: '1',
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'http.proxy',
    GIT_CONFIG_VALUE_0: proxyUrl,
  };
}
