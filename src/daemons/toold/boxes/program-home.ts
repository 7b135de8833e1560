// Settings of a person's program in the home of its box: written where the program has none yet.
import { isFault } from '../../../platform/daemon.ts';
import type { BoxId } from '../../../wire/primitives.ts';
import type { ProgramCommand } from '../../../wire/sandboxd/programs.ts';
import type { OpenBox } from '../../../wire/sandboxd.ts';
import { peerOptions } from '../tools/tool.ts';
import type { SandboxdClient } from './commands.ts';

export async function writeHome(
  sandboxd: Pick<SandboxdClient, 'boxFiles'>,
  { id, view }: { id: BoxId; view: Pick<OpenBox, 'home'> },
  files: NonNullable<ProgramCommand['home_files']>,
): Promise<void> {
  for (const { path, content } of files) {
    const body = {
      op: 'write' as const,
      path: `${view.home}/${path}`,
      content,
      create_only: true,
      make_parents: true,
    };
    await sandboxd.boxFiles({ params: { id }, body }, peerOptions).catch((error: unknown) => {
      if (!isFault(error, 'conflict')) throw error;
    });
  }
}
