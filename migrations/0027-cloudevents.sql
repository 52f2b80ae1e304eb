-- Webhooks can send CloudEvents. A process of the previous version cannot send to such a webhook, so create the first one after the
-- upgrade. Not valid first, so that the rows are checked under a lock that permits writes.
alter table webhook drop constraint webhook_format_check;
alter table webhook add constraint webhook_format_check
  check (format in ('json', 'partner_automation', 'partner_sitebuilder', 'cloudevents', 'cloudevents_binary')) not valid;
alter table webhook validate constraint webhook_format_check;
