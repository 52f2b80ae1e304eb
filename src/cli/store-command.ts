/** `halcyon store create`, `add-member` and `remove-member`. */
import { Option } from 'commander';
import { OPERATOR } from '#changelog/changelog.ts';
import { transaction } from '#db/pool.ts';
import { memberAccessOf } from '#identity/oauth/connected/connected.ts';
import type { Role } from '#stores/members/member.ts';
import { type By, addMemberWithEntry, createStoreWithEntry, removeMemberWithEntry } from '#stores/audited-changes.ts';
import { SUBSCRIPTION_EVENTS, type StoreDetails } from '#stores/store-document.ts';
import { printResult, readId, CliCommand } from './command.ts';
import { withContext, type CommandContext } from './command-context.ts';
import type { Terminal } from './terminal.ts';

const by = ({ changelog, now }: CommandContext): By => ({ changelog, actor: OPERATOR, now });

export function createStoreCommand(terminal: Terminal): CliCommand {
  const command = new CliCommand('store').description('stores and their members');
  command
    .command('create')
    .description('create a store and print its id')
    .requiredOption('--name <name>')
    .requiredOption('--domain <domain>')
    .requiredOption('--email <email>', 'the address for mails about the store')
    .option('--time-zone <zone>', 'an IANA name', 'UTC')
    .addOption(
      new Option(
        '--subscription-events <source>',
        'whether Halcyon derives subscription_event, or the platform publishes it',
      )
        .choices(SUBSCRIPTION_EVENTS)
        .default('derived'),
    )
    .examples('halcyon store create --name "Ada\'s" --domain ada.example --email ada@example.com')
    .action((options: StoreDetails) =>
      withContext(terminal, async (context) => {
        const { id } = await transaction(context.sql, (tx) => createStoreWithEntry(tx, options, by(context)));
        printResult(terminal, { id });
      }),
    );
  const add = (name: string, description: string): CliCommand =>
    command
      .command(name)
      .description(description)
      .argument('<store_id>', 'as `store create` printed it', readId('store_id'))
      .argument('<user_id>', 'as `user create` printed it', readId('user_id'));
  add('add-member', 'add a user to a store')
    .addOption(new Option('--role <role>', 'the role of the user').choices(['owner', 'member']).default('owner'))
    .examples('halcyon store add-member 4711 42 --role member')
    .action((storeId: number, userId: number, { role }: { role: Role }) =>
      withContext(terminal, async (context) => {
        await transaction(context.sql, (tx) =>
          addMemberWithEntry(tx, { storeId, userId, role }, { ...by(context), access: memberAccessOf(context) }),
        );
        printResult(terminal, { store_id: storeId, user_id: userId, role });
      }),
    );
  add('remove-member', 'remove a user from a store; the access of their apps to it ends at once')
    .examples('halcyon store remove-member 4711 42')
    .action((storeId: number, userId: number) =>
      withContext(terminal, async (context) => {
        const access = { access: memberAccessOf(context), request: null };
        await transaction(context.sql, (tx) =>
          removeMemberWithEntry(tx, { storeId, userId }, { ...by(context), ...access }),
        );
        printResult(terminal, { store_id: storeId, user_id: userId, removed: true });
      }),
    );
  return command;
}
