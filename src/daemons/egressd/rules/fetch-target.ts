// A URL that a tool asks for, read by one reader only: where the URL parser and ours would not
// agree on the host, there is no place.
import { type Host, type ParseOutcome, parseAuthority, parseHost } from '../../../policy/hosts.ts';

export type FetchTarget = {
  /** As it is told back: without anything a server does not see. */
  url: string;
  isTls: boolean;
  host: Host;
  port: number;
  path: string;
  pathAndQuery: string;
};

const problem = (text: string) => ({ problem: text });

export function readPlace(text: string): ParseOutcome<FetchTarget> {
  const found = /^(https?):\/\/([^/?#\\]+)/i.exec(text);
  if (found === null) return problem('it is not an http:// or https:// URL');
  // Tabs and newlines are skipped by the URL parser, which hides what is meant.
  if (/[\0-\x20\x7f\\]/.test(text)) return problem('it has spaces, control characters or \\ in it');
  if (!URL.canParse(text)) return problem('it is not a URL');
  const url = new URL(text);
  const isTls = url.protocol === 'https:';
  const portUsual = isTls ? 443 : 80;
  const target = parseAuthority(found[2]!, portUsual);
  if ('problem' in target) return problem(target.problem);
  const { host, port } = target.value;
  const urlHost = parseHost(url.hostname);
  const urlPort = url.port === '' ? portUsual : Number(url.port);
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
