// Asks policy whether mail from outside may reach an agent (task.delegate) or a person
// (message.send). The principal is the socket it came through: addresses in mail are claims.
import type { PolicySource } from '../../../policy/source.ts';
import type { Recipient } from '../rules/recipients.ts';

export const makePermitsOutside =
  (policy: Pick<PolicySource, 'decide'>) =>
  async (principal: string, { kind, name }: Recipient): Promise<boolean> => {
    const context = { labels: ['outside'] };
    const { answer } = await policy.decide(
      kind === 'agent'
        ? { principal, action: 'task.delegate', resource: { type: 'Agent', id: name }, context }
        : {
            principal,
            action: 'message.send',
            resource: { type: 'Person', id: name },
            context: { message_type: 'Mail', ...context },
          },
    );
    // A sender cannot wait for a person: `ask` is a no.
    return answer === 'allow';
  };
