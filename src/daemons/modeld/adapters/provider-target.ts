// Where a provider is: an http or https URL, or a Unix socket. Sockets stay open between calls.
import http from 'node:http';
import https from 'node:https';
import { fault } from '../../../wire/errors.ts';
import type { DialectName } from './dialect.ts';

export type Target = {
  request: typeof http.request;
  options: http.RequestOptions;
  /** Put before every path. */
  basePath: string;
};

export type Agents = { http: http.Agent; https: https.Agent };

const FREE_SOCKETS_MAX = 256;

export function makeAgents(): Agents {
  // The gate limits how many calls run at once; a second limit here would only hide a queue.
  const options = {
    keepAlive: true,
    maxFreeSockets: FREE_SOCKETS_MAX,
    scheduling: 'lifo' as const,
  };
  return { http: new http.Agent(options), https: new https.Agent(options) };
}

/** OpenAI's base URLs end in /v1 by custom and Anthropic's do not; both spellings work for both. */
function basePathOf(path: string, dialect: DialectName): string {
  const base = path.replace(/\/+$/, '');
  if (dialect === 'openai') return base === '' ? '/v1' : base;
  return base.endsWith('/v1') ? base.slice(0, -3) : base;
}

/** `unix:/run/x.sock`, or `unix:/run/x.sock:/base/path`. */
function parseUnix(baseUrl: string): { socketPath: string; path: string } {
  const rest = baseUrl.slice('unix:'.length);
  const mark = rest.indexOf(':/');
  if (mark === -1) return { socketPath: rest, path: '' };
  return { socketPath: rest.slice(0, mark), path: rest.slice(mark + 1) };
}

export function parseTarget(
  provider: { name: string; baseUrl: string; dialect: DialectName },
  agents: Agents,
): Target {
  const { baseUrl, dialect } = provider;
  if (baseUrl.startsWith('unix:/')) {
    const { socketPath, path } = parseUnix(baseUrl);
    const options = { socketPath, agent: agents.http, host: 'localhost' };
    return { request: http.request, options, basePath: basePathOf(path, dialect) };
  }
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw fault(
      'bad_config',
      `the base_url of provider ${provider.name} must start with http://, https:// or unix:/`,
    );
  }
  const isTls = url.protocol === 'https:';
  const options: http.RequestOptions = {
    protocol: url.protocol,
    // A literal IPv6 address has brackets in a URL and none in a connect call.
    hostname: url.hostname.replace(/^\[|\]$/g, ''),
    agent: isTls ? agents.https : agents.http,
    ...(url.port === '' ? {} : { port: url.port }),
  };
  return {
    request: isTls ? https.request : http.request,
    options,
    basePath: basePathOf(url.pathname, dialect),
  };
}
