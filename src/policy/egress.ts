// The egress proxy as a box sees it: its address, and the environment that makes programs use it.
// The warden listens there; egressd decides what may pass.

/** The same in every box with egress, because each has its own network namespace. */
export const PROXY_URL = 'http://127.0.0.1:3128';
/** Servers inside the box are reached directly; the box has no other network. */
const DIRECT = 'localhost,127.0.0.1,::1';

/**
 * Returns the environment of every process in a box with egress. Both spellings are set: curl reads
 * only lower-case http_proxy, other programs only upper case. For Git these variables take
 * precedence over every file, so that a repository cannot name another proxy.
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
