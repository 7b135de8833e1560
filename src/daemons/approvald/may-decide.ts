// Who may answer which approval. The question is put here in approvald's words; policy answers it.
import type { Reversibility, Risk } from '../../wire/approvald.ts';
import type { Label } from '../../wire/words.ts';

export type DecideQuestion = {
  person: string;
  answer: 'approve' | 'reject' | 'request-info' | 'escalate';
  approval: {
    id: string;
    agent: string;
    action: string;
    class: string;
    risk: Risk;
    reversibility: Reversibility;
    taskId: string;
    rootTaskId: string;
    labels: readonly Label[];
  };
};
export type MayDecide = (question: DecideQuestion) => Promise<{ allow: boolean; rule: string }>;

/** Without a rule of the site, everybody with a key of this runtime may. */
export const everyPersonMay: MayDecide = async () => ({ allow: true, rule: 'approvald:person' });
