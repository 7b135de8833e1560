// agentctl agent init, tool init and policy init: write a commented file to start from.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { agentTemplate } from '../templates/agent.ts';
import { POLICY_TEMPLATE } from '../templates/policy.ts';
import { toolTemplate } from '../templates/tool.ts';

export async function initAgent(session: Session): Promise<void> {
  const name = session.args.positionals[0]!;
  if (!/^[a-z][a-z0-9-]{0,30}$/.test(name))
    throw fault('bad_usage', `invalid agent name '${name}'`, {
      hint: 'Use lowercase letters, digits and dashes, such as coder or night-watch.',
    });
  const next = (file: string) => [`agentctl agent create ${name} --file ${file}`];
  writeTemplate(session, { file: `${name}.yaml`, text: agentTemplate(name), next });
}

export async function initTool(session: Session): Promise<void> {
  const { args, stateDir } = session;
  const name = args.positionals[0]!;
  if (!/^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/.test(name))
    throw fault('bad_usage', `invalid tool name '${name}'`, {
      hint: 'Use lowercase words with a dot between them, such as word.count or staging.deploy.',
    });
  const next = (file: string) => [
    `install -D -m 644 ${file} ${stateDir}/tools/${name}.yaml`,
    `agentctl tool show ${name}`,
  ];
  writeTemplate(session, { file: `${name}.yaml`, text: toolTemplate(name), next });
}

export async function initPolicy(session: Session): Promise<void> {
  const name = session.args.positionals[0]!;
  if (!/^[a-z][a-z0-9-]{0,63}$/.test(name))
    throw fault('bad_usage', `invalid name '${name}'`, {
      hint: 'Use lowercase letters, digits and dashes, such as network or deploys.',
    });
  const next = (file: string) => [
    `agentctl policy check ${file}`,
    `install -D -m 644 ${file} ${session.stateDir}/policies/${name}.cedar`,
  ];
  writeTemplate(session, { file: `${name}.cedar`, text: POLICY_TEMPLATE, next });
}

type Template = { file: string; text: string; next: (file: string) => string[] };

function writeTemplate({ args, out }: Session, template: Template): void {
  const file = args.text('out') ?? template.file;
  if (file === '-') {
    out.write(template.text);
    return;
  }
  try {
    writeFileSync(file, template.text, { flag: 'wx', mode: 0o644 });
  } catch (cause) {
    const { code = 'error' } = cause as NodeJS.ErrnoException;
    if (code === 'EEXIST')
      throw fault('conflict', `${file} exists`, {
        hint: 'Name another file with --out FILE, or print it with --out -.',
      });
    throw fault('bad_usage', `${file} cannot be written (${code})`, {
      hint: 'Name another file with --out FILE.',
      cause,
    });
  }
  const commands = template.next(file);
  out.print({ file: resolve(file), next: commands }, () => [
    `${file} written: edit it, then`,
    ...commands.map((command) => `  ${command}`),
  ]);
}
