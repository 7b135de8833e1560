// Parses the URL of an http.fetch. A URL whose host the WHATWG parser and our own parser read
// differently is rejected.
import { type Host, type ParseOutcome, parseAuthority, parseHost } from '../../../policy/hosts.ts';

export type FetchTarget = {
  /** As reported: without the fragment. */
  url: string;
  isTls: boolean;
  host: Host;
  port: number;
  path: string;
  pathAndQuery: string;
};

const problem = (text: string) => ({ problem: text });

export function parseFetchTarget(text: string): ParseOutcome<FetchTarget> {
  const match = /^(https?):\/\/([^/?#\\]+)/i.exec(text);
  if (match === null) return problem('it is not an http:// or https:// URL');
  // The URL parser skips tabs and newlines, which would disguise the host.
  if (/[\0-\x20\x7f\\]/.test(text)) return problem('it has spaces, control characters or \\ in it');
  if (!URL.canParse(text)) return problem('it is not a URL');
  const url = new URL(text);
  const isTls = url.protocol === 'https:';
  const defaultPort = isTls ? 443 : 80;
  const target = parseAuthority(match[2]!, defaultPort);
  if ('problem' in target) return problem(target.problem);
  const { host, port } = target.value;
  const urlHost = parseHost(url.hostname);
  const urlPort = url.port === '' ? defaultPort : Number(url.port);
  if ('problem' in urlHost || urlHost.value.name !== host.name || urlPort !== port)
    return problem('its host can be read in two ways');
  if (url.username !== '' || url.password !== '') return problem('it has a user name in it');
  return {
    value: {
      url: url.href.replace(/#.*$/, ''),
      isTls,
      host,
      port,
      path: url.pathname,
      pathAndQuery: `${url.pathname}${url.search}`,
    },
  };
}
