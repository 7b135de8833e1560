// Reads a host that a person opens for a program: a name, `*.name`, each with or without a port.
import { parseHostRule } from '../../policy/hosts.ts';
import { fault } from '../../wire/errors.ts';

export function readHosts(text: string): { host: string; port: number }[] {
  const rule = parseHostRule(text);
  if ('problem' in rule)
    throw fault('bad_request', `allow_hosts: ${text}: ${rule.problem}`, {
      hint: 'Name a host: github.com, *.npmjs.org or registry.local:5000.',
    });
  const { pattern, ports } = rule.value;
  return ports.map((port) => ({ host: pattern.text, port }));
}
